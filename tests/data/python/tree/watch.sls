source:
  st_plain.changed: []
quiet:
  st_plain.present: []
watched:
  st_watch.running:
    - word: given
    - watch:
      - st_plain: source
unwatched:
  st_watch.running:
    - watch:
      - st_plain: quiet
other:
  st_watch.other:
    - watch_any:
      - st_plain: quiet
      - st_plain: source
listener:
  st_watch.running:
    - listen:
      - st_plain: source
not watching:
  st_plain.present:
    - watch:
      - st_plain: source
onchanges:
  st_plain.present:
    - onchanges:
      - st_plain: source
no changes:
  st_plain.present:
    - onchanges:
      - st_plain: quiet
skips:
  st_warn.skips_watch:
    - watch:
      - st_plain: source
