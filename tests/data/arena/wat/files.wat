;; Opens the channel `in` again and again, and exits with the error number of the first time that fails.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "in")
  (func (export "_start") (local $errno i32)
    (loop $again
      (local.set $errno (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 2) (i32.const 0)
        (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 200)))
      (br_if $again (i32.eqz (local.get $errno))))
    (call $exit (local.get $errno))))
