;; Writes messages to the channel `out` for ever; exits with the error number of what fails.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\08\00\00\00\05\00\00\00flood")
  (data (i32.const 110) "out")
  (func $check (param $errno i32)
    (if (local.get $errno) (then (call $exit (local.get $errno)))))
  (func (export "_start")
    (call $check (call $open (i32.const 3) (i32.const 0) (i32.const 110) (i32.const 3) (i32.const 0)
      (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 204)))
    (loop $next
      (call $check (call $write (i32.load (i32.const 204)) (i32.const 0) (i32.const 1) (i32.const 100)))
      (br $next))))
