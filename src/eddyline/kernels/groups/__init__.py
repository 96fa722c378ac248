"""Groups of rows and their aggregates."""
