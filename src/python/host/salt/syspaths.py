"""Directories of Salt on Linux."""
import os

ROOT_DIR = "/"
CONFIG_DIR = LIB_STATE_DIR = "/etc/salt"
SHARE_DIR = "/usr/share/salt"
CACHE_DIR = "/var/cache/salt"
SOCK_DIR = "/var/run/salt"
LOGS_DIR = "/var/log/salt"
PIDFILE_DIR = "/var/run"
SRV_ROOT_DIR = "/srv"
BASE_FILE_ROOTS_DIR = "/srv/salt"
BASE_PILLAR_ROOTS_DIR = "/srv/pillar"
BASE_THORIUM_ROOTS_DIR = "/srv/thorium"
BASE_MASTER_ROOTS_DIR = "/srv/salt-master"
SPM_PARENT_PATH = "/srv/spm"
SPM_FORMULA_PATH, SPM_PILLAR_PATH, SPM_REACTOR_PATH = "/srv/spm/salt", "/srv/spm/pillar", "/srv/spm/reactor"
HOME_DIR = os.path.expanduser("~")
