"""The filters of many queries at once: which queries want a row, as bits."""
