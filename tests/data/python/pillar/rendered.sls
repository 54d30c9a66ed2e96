#!swap OLD new|yaml
corpus_swapped: OLD value
