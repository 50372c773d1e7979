package config

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Program is which program's settings are read.
type Program uint8

const (
	// Daemon is evalhost-runner: every AJ_ key and every EVALHOST_ key must be known.
	Daemon Program = 1 << iota
	// Command is evalhost: every EVALHOST_ and AJ_Sandbox__ key must be known. The daemon's are passed over, so that a shell
	// with the daemon's environment can run the command.
	Command
)

// Facts is what the caller knows about this process. The zero value knows nothing.
type Facts struct {
	// Hostname is the host's name, the default of the Runner's.
	Hostname string
	// ShimBeside is the path of a shim that lies beside this program, empty if there is none.
	ShimBeside string
}

// Settings is what a program was told, every value checked. Fields that are of no use to a program are zero.
type Settings struct {
	// BaseURL is the root of the Server's interface, including /api/v1, without trailing slashes.
	BaseURL string
	// CAFile holds certificates to trust beside the system's; empty for none.
	CAFile string
	// Name is what the Server's panel shows, at most 128 characters.
	Name string
	// KeyPath is the file of the Runner's private key.
	KeyPath string
	// ProblemTypes has at least one element; Tags is empty for the pool "default".
	ProblemTypes, Tags []string
	// Lanes is how many tests of one submission are judged at once, at least 1 (AJ_Runner__TestsAtOnce).
	Lanes int

	// PollWait is how long the Server is asked to hold a claim, 0 to 300 s; 0 is no hold at all.
	PollWait time.Duration
	// PollMin and PollMax bound the back-off; PollMax is not below PollMin.
	PollMin, PollMax time.Duration
	// Heartbeat is at least 1 s.
	Heartbeat time.Duration
	// LeaseRequest is asked for as it is; what is granted lies between 60 and 3600 s (protocol.GrantedLease).
	LeaseRequest time.Duration

	// CachePath holds packages; CacheMax is how much of them is kept.
	CachePath string
	CacheMax  verdict.Bytes
	// Scratch is where jobs and commands work, a directory that containers mount from.
	Scratch string

	// AllowUnmeasured lets the daemon start on a host that cannot judge; every job then fails (decisions 18).
	AllowUnmeasured bool
	// CgroupRoot is where the unified hierarchy is mounted.
	CgroupRoot string
	// References name another reference for an image, by the key of langimages.
	References map[string]string
	// DockerHost is unix:// and an absolute path.
	DockerHost string

	// Manifest says what the images must be. Shim is our shim; empty for each image's own (EVALHOST_SHIM).
	Manifest, Shim string
	// Languages is what is offered.
	Languages *langimages.Table
	// BuildWallFactor multiplies the wall clock of builds, 1 to 100.
	BuildWallFactor float64
	// Metrics is a loopback address to tell figures at; the zero AddrPort for none.
	Metrics netip.AddrPort
	// HealthFile is kept up to date for local scripts; empty for none.
	HealthFile string
	LogLevel   slog.Level

	entries []Entry
}

// NeededImages are the keys of the images that the offered languages need, in the order of the table; never nil.
func (s Settings) NeededImages() []string {
	keys := []string{}
	for _, t := range s.Languages.Offered() {
		if !slices.Contains(keys, t.Image) {
			keys = append(keys, t.Image)
		}
	}
	return keys
}

// Origin says where a value came from.
type Origin string

const (
	FromDefault     Origin = "default"
	FromEnvironment Origin = "environment"
	FromHost        Origin = "the host's name"
	FromBeside      Origin = "beside this program"
)

// Entry is one effective setting, for people.
type Entry struct {
	Key   string
	Value string // as it took effect; empty where a setting has no value
	From  Origin
}

// Effective returns every setting of the program with its value and where it came from, in the order of the table.
func (s Settings) Effective() []Entry { return append([]Entry(nil), s.entries...) }

// Warning is something that was accepted and is probably not meant.
type Warning struct{ Key, Text string }

func (w Warning) String() string { return w.Key + " " + w.Text }
