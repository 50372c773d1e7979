"sha256-rBlXKzoI2nCg/Fv/5bBx21tsldlnZXLUnyDLSHTKF1c="
