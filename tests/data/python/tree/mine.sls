#!mine
# a line of its own
one = first
two = second
