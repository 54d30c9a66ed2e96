#!wrong
