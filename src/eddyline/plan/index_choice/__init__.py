"""How many address bits each attribute of an index gets: the workload, its price, and the searches."""
