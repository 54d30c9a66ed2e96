;; Asks for more memory until it gets none, and then for ever.
(module
  (memory (export "memory") 1)
  (func (export "_start") (loop $again (drop (memory.grow (i32.const 1))) (br $again))))
