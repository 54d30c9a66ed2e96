{%- set new = '__new__' %}
run greet:
  module.run:
    - name: shape_plain.greet
    - m_name: module
run both:
  module.run:
    - name: shape_plain.both
    - args: [1, two]
    - kwargs: {k: v}
run error:
  module.run:
    - name: errors.command
run retcode:
  module.run:
    - name: use_dunders.retcode
run absent:
  module.run:
    - name: corpus.absent
run false:
  module.run:
    - name: virt_reason.run
