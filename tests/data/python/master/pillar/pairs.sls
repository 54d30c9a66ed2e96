#!pairs
# capitals
pairs_a: one
pairs_b: two
