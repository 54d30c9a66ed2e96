corpus:
  name: halite
  port: 8080
  host: pillar.example
