package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/evalhost/evalhost/langimages"
)

// settings is the configuration of the local command, from its environment.
type settings struct {
	manifest   string
	scratch    string
	shim       string
	cgroupRoot string
	dockerHost string
	wallFactor float64
	logLevel   slog.Level
	references map[string]string // by image key, where the operator names another image than the manifest does
}

const (
	defaultManifest = "/etc/evalhost/images.json"
	defaultScratch  = "/var/lib/evalhost/scratch"
	defaultCgroups  = "/sys/fs/cgroup"
	defaultDocker   = "unix:///var/run/docker.sock"
	shimName        = "aj-shim"
	packagedShim    = "/usr/lib/evalhost/" + shimName
)

const helpEnvironment = `
Environment (an unknown EVALHOST_ or AJ_Sandbox__ key is refused; an empty value counts as unset):
  EVALHOST_MANIFEST           what the language images must be; default ` + defaultManifest + `
  EVALHOST_SCRATCH            where runs are made; must allow executables; default ` + defaultScratch + `
  EVALHOST_SHIM_PATH          the shim; default: ` + shimName + ` beside this program, else ` + packagedShim + `
  EVALHOST_LOG_LEVEL          debug, info, warn or error; default warn
  EVALHOST_BUILD_WALL_FACTOR  multiplies the wall clock of builds, for slow virtual machines; default 1
  AJ_Sandbox__CgroupRoot      the unified cgroup hierarchy; default ` + defaultCgroups + `
  AJ_Sandbox__Image__...      another reference for an image; it must still be the image of the manifest
  DOCKER_HOST                 Docker's socket, unix:// only; default ` + defaultDocker + `
`

// setting is one key: how its value is read into the settings. The error says what was expected.
type setting func(*settings, string) error

// keys is the table of what the local command reads. executable is the path of this program.
func keys() map[string]setting {
	table := map[string]setting{
		"EVALHOST_MANIFEST":          absolute(func(s *settings) *string { return &s.manifest }),
		"EVALHOST_SCRATCH":           absolute(func(s *settings) *string { return &s.scratch }),
		"EVALHOST_SHIM_PATH":         absolute(func(s *settings) *string { return &s.shim }),
		"EVALHOST_BUILD_WALL_FACTOR": wallFactor,
		"EVALHOST_LOG_LEVEL":         logLevel,
		"AJ_Sandbox__CgroupRoot":     absolute(func(s *settings) *string { return &s.cgroupRoot }),
		"DOCKER_HOST":                dockerHost,
	}
	for _, image := range langimages.Default().Images() {
		table[image.Variable] = func(s *settings, value string) error {
			s.references[image.Key] = value
			return nil
		}
		for _, old := range image.OldVariables {
			table[old] = func(s *settings, value string) error {
				// The present name of the key wins, whichever is read first.
				if s.references[image.Key] == "" {
					s.references[image.Key] = value
				}
				return nil
			}
		}
	}
	return table
}

// readSettings reads the environment strictly: every EVALHOST_ and AJ_Sandbox__ key must be known and its value well
// formed. Other AJ_ keys configure the daemon and are none of this command's business.
func readSettings(env []string, executable string) (settings, error) {
	s := settings{
		manifest: defaultManifest, scratch: defaultScratch, shim: packagedShim, cgroupRoot: defaultCgroups,
		dockerHost: defaultDocker, wallFactor: 1, logLevel: slog.LevelWarn, references: map[string]string{},
	}
	if beside := filepath.Join(filepath.Dir(executable), shimName); isFile(beside) {
		s.shim = beside
	}
	known := keys()
	// In the order of the keys, so that of two faults the same one is named every time.
	sorted := append([]string(nil), env...)
	sort.Strings(sorted)
	for _, entry := range sorted {
		key, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(key, "EVALHOST_") && !strings.HasPrefix(key, "AJ_Sandbox__") && key != "DOCKER_HOST" {
			continue
		}
		read, ok := known[key]
		switch {
		case !ok:
			return s, badUse("%s is no setting of this command; `evalhost help` lists them", key)
		case value == "":
		default:
			if err := read(&s, value); err != nil {
				return s, badUse("%s is %q; %v", key, value, err)
			}
		}
	}
	return s, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func absolute(field func(*settings) *string) setting {
	return func(s *settings, value string) error {
		if !filepath.IsAbs(value) {
			return fmt.Errorf("expected an absolute path")
		}
		*field(s) = filepath.Clean(value)
		return nil
	}
}

func wallFactor(s *settings, value string) error {
	factor, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(factor) || factor < 1 || factor > 100 {
		return fmt.Errorf("expected a number of 1 to 100")
	}
	s.wallFactor = factor
	return nil
}

func logLevel(s *settings, value string) error {
	switch value {
	case "debug", "info", "warn", "error":
		return s.logLevel.UnmarshalText([]byte(value))
	}
	return fmt.Errorf("expected debug, info, warn or error")
}

func dockerHost(s *settings, value string) error {
	path, ok := strings.CutPrefix(value, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return fmt.Errorf("expected unix:// and an absolute path: containers mount files of this machine")
	}
	s.dockerHost = value
	return nil
}
