package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/evalhost/evalhost/langimages"
)

// Where things are on a host that has evalhost installed; nixos/host/ makes these places.
const (
	defaultKey      = "/var/lib/evalhost/identity.key"
	defaultCache    = "/var/lib/evalhost/cache"
	defaultScratch  = "/var/lib/evalhost/scratch"
	defaultManifest = "/etc/evalhost/images.json"
	defaultHealth   = "/run/evalhost-runner/health.json"
	packagedShim    = "/usr/lib/evalhost/aj-shim"
	defaultName     = "evalhost-runner"
)

// key is one row of the table.
type key struct {
	name    string
	old     []string // earlier names: still read, with a warning, and the present name wins
	readers Program  // whose setting it is
	section string   // heads a group in the example; empty continues the group
	doc     string   // what it is, for a person
	example string   // a value for the example where there is no default

	required bool
	// initial is the value an unset key has, read like any other; an empty one leaves the key unset.
	initial func(Program, Facts) (string, Origin)
	read    reader
	show    func(Settings) string
}

func always(value string) func(Program, Facts) (string, Origin) {
	return func(Program, Facts) (string, Origin) { return value, FromDefault }
}

func nothing(Program, Facts) (string, Origin) { return "", FromDefault }

func hostName(_ Program, facts Facts) (string, Origin) {
	if name := strings.TrimSpace(facts.Hostname); name != "" {
		return name, FromHost
	}
	return defaultName, FromDefault
}

func shimPath(_ Program, facts Facts) (string, Origin) {
	if facts.ShimBeside != "" {
		return facts.ShimBeside, FromBeside
	}
	return packagedShim, FromDefault
}

func level(program Program, _ Facts) (string, Origin) {
	if program == Command {
		return "warn", FromDefault
	}
	return "info", FromDefault
}

func inSeconds(field func(Settings) time.Duration) func(Settings) string {
	return func(s Settings) string { return strconv.FormatInt(int64(field(s)/time.Second), 10) }
}

func switched(field func(Settings) bool) func(Settings) string {
	return func(s Settings) string {
		if field(s) {
			return "on"
		}
		return ""
	}
}

// table is every key, in the order of the example.
func table() []key {
	rows := []key{
		{
			name: "AJ_Server__BaseUrl", readers: Daemon, section: "The Server, and who this Runner is", required: true,
			doc:     "The root of the Server's interface, with /api/ and a version. The only setting a Runner must be given.",
			example: "https://judge.example.org/api/v1",
			initial: nothing, read: baseURL, show: func(s Settings) string { return s.BaseURL },
		},
		{
			name: "AJ_Runner__Name", readers: Daemon,
			doc:     "What the Server's panel calls this Runner, at most 128 characters. Unset: the host's name.",
			example: "hall-2-left",
			initial: hostName, read: name, show: func(s Settings) string { return s.Name },
		},
		{
			name: "AJ_Runner__KeyPath", readers: Daemon,
			doc: "The private key: 32 bytes, made at the first start. Lose it and the Runner has to be approved anew; two " +
				"Runners never share one.",
			initial: always(defaultKey), read: path(func(s *Settings) *string { return &s.KeyPath }),
			show: func(s Settings) string { return s.KeyPath },
		},
		{
			name: "AJ_Runner__ProblemTypes", readers: Daemon,
			doc:     "The kinds of problems to ask for, separated by commas: standard-io@1, output-only@1.",
			initial: always("standard-io@1"), read: problemTypes,
			show: func(s Settings) string { return strings.Join(s.ProblemTypes, ",") },
		},
		{
			name: "AJ_Runner__Tags", readers: Daemon,
			doc: "The pools this Runner serves, separated by commas, in lower case. Unset: the pool \"default\", which naming " +
				"one leaves. The Server reads them at the first registration and never again.",
			example: "finals",
			initial: nothing, read: tags, show: func(s Settings) string { return strings.Join(s.Tags, ",") },
		},
		{
			name: "AJ_Runner__TestsAtOnce", readers: Daemon,
			doc: "How many tests of one submission are judged at once, each on whole cores of its own. More than there are " +
				"cores is refused at the start.",
			initial: always("1"), read: lanes, show: func(s Settings) string { return strconv.Itoa(s.Lanes) },
		},
		{
			name: "EVALHOST_CA_FILE", readers: Daemon,
			doc:     "Certificates (PEM) to trust beside the system's, for a Server with a private authority.",
			example: "/etc/evalhost/judge-ca.pem",
			initial: nothing, read: path(func(s *Settings) *string { return &s.CAFile }),
			show: func(s Settings) string { return s.CAFile },
		},
		{
			name: "AJ_Poll__WaitSeconds", readers: Daemon, section: "Asking for work, leases, signs of life (seconds)",
			doc: "How long the Server is asked to hold a claim when there is no work, 0 to 300; 0 asks for no hold. Keep it " +
				"below what proxies on the way allow for silence (often 60).",
			initial: always("25"), read: pollWait, show: inSeconds(func(s Settings) time.Duration { return s.PollWait }),
		},
		{
			name: "AJ_Poll__MinSeconds", readers: Daemon,
			doc:     "The shortest pause between two attempts after a failure or an answer without work; never below 0.1 s.",
			initial: always("1"), read: seconds(0, oneDay, func(s *Settings) *time.Duration { return &s.PollMin }),
			show: inSeconds(func(s Settings) time.Duration { return s.PollMin }),
		},
		{
			name: "AJ_Poll__MaxSeconds", readers: Daemon,
			doc:     "The longest such pause; raised to the shortest if it is below.",
			initial: always("30"), read: seconds(0, oneDay, func(s *Settings) *time.Duration { return &s.PollMax }),
			show: inSeconds(func(s Settings) time.Duration { return s.PollMax }),
		},
		{
			name: "AJ_Heartbeat__Seconds", readers: Daemon,
			doc:     "How often the Runner says that it is there. The Server calls it disconnected after 120 s of silence.",
			initial: always("60"), read: heartbeat, show: inSeconds(func(s Settings) time.Duration { return s.Heartbeat }),
		},
		{
			name: "AJ_Lease__RequestSeconds", readers: Daemon,
			doc: "How long a job is asked to be ours without a renewal; the Server grants 60 to 3600. It is renewed every " +
				"quarter of that.",
			initial: always("600"), read: leaseRequest,
			show: inSeconds(func(s Settings) time.Duration { return s.LeaseRequest }),
		},
		{
			name: "AJ_Cache__Path", readers: Daemon, section: "Storage",
			doc: "Where packages are kept between jobs. A directory of its own: everything below is deleted in time. Runners of " +
				"one host may share it.",
			initial: always(defaultCache), read: path(func(s *Settings) *string { return &s.CachePath }),
			show: func(s Settings) string { return s.CachePath },
		},
		{
			name: "AJ_Cache__MaxBytes", readers: Daemon,
			doc:     "How much is kept there, in bytes: archives, what is unpacked and what is built.",
			initial: always("10737418240"), read: cacheMax,
			show: func(s Settings) string { return strconv.FormatInt(int64(s.CacheMax), 10) },
		},
		{
			name: "AJ_Work__Path", readers: Daemon,
			doc: "Where jobs work. On a file system that allows executing, seen by Docker at the same path, not below /run or " +
				"a private /tmp. Two Runners never share it.",
			initial: always(defaultScratch), read: scratch, show: func(s Settings) string { return s.Scratch },
		},
		{
			name: "EVALHOST_SCRATCH", readers: Command,
			doc:     "Where the local command works: what AJ_Work__Path is to the daemon.",
			initial: always(defaultScratch), read: scratch, show: func(s Settings) string { return s.Scratch },
		},
		{
			name: "DOCKER_HOST", readers: Daemon | Command, section: "Containers",
			doc:     "Docker's socket; unix:// only, because containers mount files of this machine.",
			initial: always("unix:///var/run/docker.sock"), read: dockerHost,
			show: func(s Settings) string { return s.DockerHost },
		},
		{
			name: "AJ_Sandbox__CgroupRoot", readers: Daemon | Command,
			doc:     "Where the unified cgroup hierarchy is mounted.",
			initial: always("/sys/fs/cgroup"), read: path(func(s *Settings) *string { return &s.CgroupRoot }),
			show: func(s Settings) string { return s.CgroupRoot },
		},
		{
			name: "AJ_Sandbox__AllowUnmeasured", old: []string{"AJ_Sandbox__AllowCgroupV1"}, readers: Daemon,
			doc: "A switch, on with any value: start on a host that cannot judge. Every job then fails as an infrastructure " +
				"failure. For tests of the protocol only.",
			example: "1",
			initial: nothing, read: on(func(s *Settings) *bool { return &s.AllowUnmeasured }),
			show: switched(func(s Settings) bool { return s.AllowUnmeasured }),
		},
	}
	for i, img := range langimages.Default().Images() {
		row := key{
			name: img.Variable, old: img.OldVariables, readers: Daemon | Command,
			doc:     "Another reference for the " + img.Key + " image. It must still be the image of the manifest.",
			example: img.Reference,
			initial: nothing, read: image(img.Key),
			show: func(s Settings) string { return s.References[img.Key] },
		}
		if i == 0 {
			row.section = "Language images. evalhost never pulls: what is absent or another is refused at the start"
			row.doc += " Unset: the reference of the manifest, usually the one shown here."
		}
		rows = append(rows, row)
	}
	return append(rows,
		key{
			name: "EVALHOST_MANIFEST", readers: Daemon | Command,
			doc:     "What the language images must be.",
			initial: always(defaultManifest), read: path(func(s *Settings) *string { return &s.Manifest }),
			show: func(s Settings) string { return s.Manifest },
		},
		key{
			name: "EVALHOST_LANGUAGES", readers: Daemon,
			doc: "What is offered, separated by commas, each a family or a toolchain of langimages/toolchains.json. Unset: " +
				"everything. Only the images of what is offered are needed.",
			example: "cpp,python3",
			initial: nothing, read: languages, show: func(s Settings) string {
				if offered := s.Languages.Offered(); len(offered) < len(langimages.Default().Offered()) {
					ids := make([]string, len(offered))
					for i, toolchain := range offered {
						ids[i] = toolchain.ID
					}
					return strings.Join(ids, ",")
				}
				return ""
			},
		},
		key{
			name: "EVALHOST_SHIM_PATH", readers: Daemon | Command, section: "This program",
			doc:     "The shim that starts and measures judged programs. Unset: aj-shim beside this program, else the default.",
			initial: shimPath, read: path(func(s *Settings) *string { return &s.Shim }),
			show: func(s Settings) string { return s.Shim },
		},
		key{
			name: "EVALHOST_SHIM", readers: Daemon,
			doc:     "\"image\" uses the shim of each image instead, for compatibility tests only.",
			example: "image",
			initial: nothing, read: imageShim, show: func(s Settings) string {
				if s.Shim == "" {
					return "image"
				}
				return ""
			},
		},
		key{
			name: "EVALHOST_BUILD_WALL_FACTOR", readers: Daemon | Command,
			doc:     "Multiplies the wall clock of builds, for machines that emulate a processor; 1 to 100.",
			initial: always("1"), read: wallFactor,
			show: func(s Settings) string { return strconv.FormatFloat(s.BuildWallFactor, 'g', -1, 64) },
		},
		key{
			name: "EVALHOST_METRICS", readers: Daemon,
			doc:     "A loopback address and port to tell Prometheus figures at. Unset: none are told.",
			example: "127.0.0.1:9464",
			initial: nothing, read: metrics, show: func(s Settings) string {
				if !s.Metrics.IsValid() {
					return ""
				}
				return s.Metrics.String()
			},
		},
		key{
			name: "EVALHOST_HEALTH_FILE", readers: Daemon,
			doc:     "A JSON file that says how the Runner is, for scripts of this host; \"none\" for no such file.",
			initial: always(defaultHealth), read: healthFile, show: func(s Settings) string {
				if s.HealthFile == "" {
					return "none"
				}
				return s.HealthFile
			},
		},
		key{
			name: "EVALHOST_LOG_LEVEL", readers: Daemon | Command,
			doc:     "debug, info, warn or error. The local command's default is warn.",
			initial: level, read: logLevel, show: func(s Settings) string { return shownLevel(s.LogLevel) },
		},
	)
}

// mirrors are the daemon's view of a path. Here Docker is on the same machine, so they must say the same as the path.
var mirrors = map[string]string{
	"AJ_Cache__HostPath": "AJ_Cache__Path",
	"AJ_Work__HostPath":  "AJ_Work__Path",
	"AJ_Pipes__Path":     "AJ_Work__Path",
	"AJ_Pipes__HostPath": "AJ_Work__Path",
}

// removed are keys of other Runners that mean nothing here, each with what takes its place.
var removed = map[string]string{
	"AJ_Cache__Volume":        "set AJ_Cache__Path: nothing here runs inside a container, so a directory needs no volume",
	"AJ_Work__Volume":         "set AJ_Work__Path: nothing here runs inside a container, so a directory needs no volume",
	"AJ_Pipes__Volume":        "set AJ_Work__Path: pipes are made below it",
	"AJ_Work__OutputPath":     "set AJ_Work__Path: pipes are made below it",
	"AJ_Work__OutputHostPath": "set AJ_Work__Path: pipes are made below it",
}

// ignored begin the names of what test harnesses of other programs read.
var ignored = []string{"AJ_TEST", "AJ_ADMIN_", "AJ_DOCKER_"}

// proxies are read where the client of the Server is made, in capitals or not; here they are only checked and shown.
var proxies = []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"}
