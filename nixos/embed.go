// Package nixos holds the scripts of the host's units, so that a suite can run them on a host without Nix.
package nixos

import "embed"

// Scripts are the scripts that units of the module run, by their place in this directory. That of the firewall is a file of
// nixos/host, which every host has.
//
//go:embed format-scratch.sh load-images.sh profiles/boot-config.sh
var Scripts embed.FS
