;; Copies the channel `in` to the channel `out`, message by message (as much as 1000 octets of each at once). Exits with the error
;; number of what failed; 0 at the end of the channel.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "in")
  (data (i32.const 110) "out")
  (func $check (param $errno i32)
    (if (local.get $errno) (then (call $exit (local.get $errno)))))
  (func (export "_start")
    ;; Rights: 2 is to read, 64 is to write. 3 is the folder `/`.
    (call $check (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 2) (i32.const 0)
      (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 200)))
    (call $check (call $open (i32.const 3) (i32.const 0) (i32.const 110) (i32.const 3) (i32.const 0)
      (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 204)))
    (loop $next
      (i32.store (i32.const 0) (i32.const 1024))
      (i32.store (i32.const 4) (i32.const 1000))
      (call $check (call $read (i32.load (i32.const 200)) (i32.const 0) (i32.const 1) (i32.const 8)))
      (if (i32.eqz (i32.load (i32.const 8))) (then (call $exit (i32.const 0))))
      (i32.store (i32.const 4) (i32.load (i32.const 8)))
      (call $check (call $write (i32.load (i32.const 204)) (i32.const 0) (i32.const 1) (i32.const 8)))
      (br $next))))
