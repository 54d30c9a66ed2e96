#!jinja|knows
text {{ grains.kernel }}
