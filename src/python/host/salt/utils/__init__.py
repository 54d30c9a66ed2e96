"""Helpers by the names that Salt's modules import."""
