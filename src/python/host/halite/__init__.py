"""The program that runs users' Python code for halite."""
