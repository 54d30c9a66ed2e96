#!mako|yaml
x: ${1}
