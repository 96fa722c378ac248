"""The driver for several cores of this machine: batches over processes that it starts"""
