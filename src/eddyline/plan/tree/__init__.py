"""Which join tree a query gets, within budgets of CPU and memory."""
