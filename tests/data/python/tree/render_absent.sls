#!absent
