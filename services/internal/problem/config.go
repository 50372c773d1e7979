package problem

import (
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Type is a problem type, an opaque string compared as it stands (spec/judging.md 2).
type Type string

const (
	// StandardIO: a program reads standard input and writes standard output.
	StandardIO Type = "standard-io@1"
	// OutputOnly: the participant hands in answers; nothing is compiled or run.
	OutputOnly Type = "output-only@1"
)

// Known tells whether packages of this type can be read.
func (t Type) Known() bool { return t == StandardIO || t == OutputOnly }

// Config is what a package's config.yml says, with an assignment's configuration laid over it where there is one. A
// Config that exists is valid by rows 3 to 13 of spec/judging.md 1.6.
type Config struct {
	Type Type
	// Base holds the package-wide limits.
	Base Limits
	// OverrideLimits is keyed by family or toolchain id. Keys are not checked against the languages offered.
	OverrideLimits map[string]PartialLimits
	// Languages lists the families and toolchain ids allowed; none means all.
	Languages []string
	// Groups are in the author's order, which is the order of the table and decides the verdict.
	Groups []Group
	// Checker and Interactor are nil if not declared; never both are set.
	Checker, Interactor *Source
	// ModelSolutions are for calibration only.
	ModelSolutions []Source
	Calibration    Calibration
	// ExtraCompilationFiles is read and used for nothing (spec/judging.md 11.9).
	ExtraCompilationFiles []string

	root     *node
	expected Type
}

// Group is one scoring group.
type Group struct {
	Number   uint32
	Points   uint32
	Examples bool
	Limits   PartialLimits
	// Declared is the number of tests of an interactive package that need no files, 0 if none are declared.
	Declared int
}

// Source is a program inside the package.
type Source struct {
	// Path is the clean path below the package's root.
	Path string
	// Language is a toolchain id or an alias, as declared.
	Language string
}

// Calibration is what the author's tools left behind about measuring. It is never used for judging.
type Calibration struct {
	Time, Memory Rule
	Measured     []Measured
	At, Runner   string
}

// Measured is one row of an earlier trial.
type Measured struct {
	Group    uint32
	Language string
	Time     time.Duration
	// Memory is 0 if it was not measured.
	Memory verdict.Bytes
}

// ParseConfig reads and validates the text of a config.yml: rows 3 to 13 of spec/judging.md 1.6, in that order. The
// expected type is the job's; the empty type takes whatever the package declares, as long as it is a known one.
// Every error is an *Error with its place in the text.
func ParseConfig(text []byte, expected Type) (*Config, error) {
	root, err := readYAML(ConfigName, text)
	if err != nil {
		return nil, err
	}
	return newConfig(root, expected)
}

// newConfig validates a tree and converts it.
func newConfig(root *node, expected Type) (*Config, error) {
	d, err := decodeDocument(root)
	if err != nil {
		return nil, err
	}
	declared, err := d.validate(expected)
	if err != nil {
		return nil, err
	}
	config := d.config()
	config.Type, config.root, config.expected = declared, root, expected
	return config, nil
}

// Group returns the group with this number.
func (c *Config) Group(number uint32) (Group, bool) {
	for _, g := range c.Groups {
		if g.Number == number {
			return g, true
		}
	}
	return Group{}, false
}

// MaxScore is the sum of all points. It need not be 100.
func (c *Config) MaxScore() uint64 {
	var sum uint64
	for _, g := range c.Groups {
		sum += uint64(g.Points)
	}
	return sum
}
