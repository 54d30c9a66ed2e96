#!fails salt
