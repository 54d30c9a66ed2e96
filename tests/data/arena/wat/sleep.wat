;; Writes a line and waits for an hour.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\08\00\00\00\05\00\00\00good ")
  ;; A subscription at 256: a monotonic clock, in 3600 seconds.
  (data (i32.const 272) "\01\00\00\00")
  (func (export "_start")
    (i64.store (i32.const 280) (i64.const 3600000000000))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))
    (drop (call $poll (i32.const 256) (i32.const 512) (i32.const 1) (i32.const 100)))))
