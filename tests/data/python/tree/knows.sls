#!knows some words
