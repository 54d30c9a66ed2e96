"""What Salt's package had of other people's: see `six`."""
