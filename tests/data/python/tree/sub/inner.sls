sub inner:
  st_dunders.where: []
