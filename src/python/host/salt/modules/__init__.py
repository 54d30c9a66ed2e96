"""Salt's own execution modules, for code that imports them instead of using `__salt__`."""
