package nix

import "embed"

// Units are the units that NixOS would write for the module, as they were last evaluated: bare-metal/NAME and iso/NAME below
// testdata, without the hashes of the store. A test compares them with the evaluation; the suite "hosts" runs the scripts of
// the host under what they restrict.
//
//go:embed testdata/bare-metal/*.service testdata/iso/*.service
var Units embed.FS
