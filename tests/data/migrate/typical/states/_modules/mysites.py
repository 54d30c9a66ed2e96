"""Names of sites."""
