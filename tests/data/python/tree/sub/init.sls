include:
  - .inner
sub init:
  st_dunders.where: []
