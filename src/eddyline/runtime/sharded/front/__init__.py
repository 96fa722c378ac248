"""What sessions and reports ask of a job on several shards"""
