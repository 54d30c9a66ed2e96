#!corpus_unknown
