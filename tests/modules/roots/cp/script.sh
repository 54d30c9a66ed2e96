#!/bin/sh
echo "script $*"
