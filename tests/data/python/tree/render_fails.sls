#!fails
