package langimages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	digestA = "sha256:" + strings.Repeat("a1", 32)
	digestB = "sha256:" + strings.Repeat("b2", 32)
)

func exampleIdentity() Identity {
	return Identity{
		Layers: []string{digestA, digestB},
		Config: IdentityConfig{
			User: "65534:65534", Env: []string{"PATH=/usr/bin", "LANG=C"}, Entrypoint: []string{"/init"}, Cmd: []string{"sh"},
			WorkingDir: "/work", Volumes: []string{"/a", "/b"}, Healthcheck: []string{"NONE"},
		},
	}
}

func TestAManifestReadsAsItsBuilderWroteIt(t *testing.T) {
	got, err := ParseManifest([]byte(`{"version":1,"images":{"gcc":{"reference":"evalhost/lang-gcc:local","layers":["` + digestA + `"],
		"config":{"user":"65534:65534","env":["PATH=/usr/bin"],"entrypoint":[],"cmd":[],"workingDir":"","volumes":[],"healthcheck":[]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Manifest{Version: 1, Images: map[string]Built{"gcc": {
		Reference: "evalhost/lang-gcc:local",
		Identity: Identity{Layers: []string{digestA}, Config: IdentityConfig{
			User: "65534:65534", Env: []string{"PATH=/usr/bin"}, Entrypoint: []string{}, Cmd: []string{}, Volumes: []string{}, Healthcheck: []string{},
		}},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

func TestAManifestWrittenHereReadsBackTheSame(t *testing.T) {
	want := &Manifest{Version: 1, Images: map[string]Built{"pypy": {Reference: "x:1", Identity: exampleIdentity()}}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

func TestAManifestThatSaysTooLittleOrTooMuchIsRefused(t *testing.T) {
	good := `{"version":1,"images":{"gcc":{"reference":"r:1","layers":["` + digestA + `"],"config":{"user":"1:1"}}}}`
	if _, err := ParseManifest([]byte(good)); err != nil {
		t.Fatalf("the manifest the cases start from is refused: %v", err)
	}
	for _, c := range []struct{ name, old, new, message string }{
		{"another version", `"version":1`, `"version":2`, "version 2"},
		{"no version", `"version":1,`, ``, "version 0"},
		{"an unknown member", `"reference"`, `"labels":{},"reference"`, "labels"},
		{"an unknown member of the configuration", `"user":"1:1"`, `"user":"1:1","shell":[]`, "shell"},
		{"a member given twice", `"user":"1:1"`, `"user":"1:1","user":"0:0"`, "images.gcc.config.user is given twice"},
		{"an image given twice", `"images":{`, `"images":{"gcc":{},`, "twice"},
		{"no reference", `"reference":"r:1"`, `"reference":""`, "reference"},
		{"no layers", `["` + digestA + `"]`, `[]`, "no layers"},
		{"layers that are null", `["` + digestA + `"]`, `null`, "no layers"},
		{"a short digest", digestA, digestA[:70], "layer 1"},
		{"a digest in capitals", digestA, strings.ToUpper(digestA), "layer 1"},
		{"an image without a key", `"gcc"`, `""`, "key"},
		{"something after the document", `"1:1"}}}}`, `"1:1"}}}}x`, "follows"},
		{"no image", good, `{"version":1,"images":{}}`, "no image"},
		{"nothing", good, ``, "EOF"},
		{"a list", good, `[]`, "array"},
	} {
		changed := strings.Replace(good, c.old, c.new, 1)
		if changed == good {
			t.Fatalf("%s: the case changes nothing", c.name)
		}
		if _, err := ParseManifest([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.message)
		}
	}
}

func TestEveryFieldOfAnIdentityThatDiffersIsNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Identity)
		want   []string
	}{
		{"nothing", func(*Identity) {}, nil},
		{"volumes in another order", func(i *Identity) { i.Config.Volumes = []string{"/b", "/a"} }, nil},
		{"a layer", func(i *Identity) { i.Layers[1] = digestA }, []string{"layer 2: expected " + digestB + ", found " + digestA}},
		{"a layer less", func(i *Identity) { i.Layers = i.Layers[:1] }, []string{"number of layers: expected 2, found 1"}},
		{"no layers", func(i *Identity) { i.Layers = nil }, []string{"number of layers: expected 2, found 0"}},
		{"layers in another order", func(i *Identity) { i.Layers = []string{digestB, digestA} }, []string{
			"layer 1: expected " + digestA + ", found " + digestB, "layer 2: expected " + digestB + ", found " + digestA,
		}},
		{"user", func(i *Identity) { i.Config.User = "" }, []string{`user: expected "65534:65534", found ""`}},
		{"environment", func(i *Identity) { i.Config.Env = nil }, []string{`environment: expected ["PATH=/usr/bin" "LANG=C"], found []`}},
		{"entry point", func(i *Identity) { i.Config.Entrypoint = []string{} }, []string{`entry point: expected ["/init"], found []`}},
		{"command", func(i *Identity) { i.Config.Cmd = []string{"sh", "-c"} }, []string{`command: expected ["sh"], found ["sh" "-c"]`}},
		{"working directory", func(i *Identity) { i.Config.WorkingDir = "/" }, []string{`working directory: expected "/work", found "/"`}},
		{"volumes", func(i *Identity) { i.Config.Volumes = []string{"/a"} }, []string{`volumes: expected ["/a" "/b"], found ["/a"]`}},
		{"health check", func(i *Identity) { i.Config.Healthcheck = nil }, []string{`health check: expected ["NONE"], found []`}},
		{"two fields", func(i *Identity) { i.Config.User, i.Config.WorkingDir = "0:0", "" }, []string{
			`user: expected "65534:65534", found "0:0"`, `working directory: expected "/work", found ""`,
		}},
	} {
		other := exampleIdentity()
		c.change(&other)
		if diff := cmp.Diff(c.want, exampleIdentity().Diff(other)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if same := exampleIdentity().Digest() == other.Digest(); same != (c.want == nil) {
			t.Errorf("%s: the digests are the same: %v", c.name, same)
		}
	}
}

func TestAnAbsentListAndAnEmptyOneAreTheSameIdentity(t *testing.T) {
	empty := Identity{Layers: []string{digestA}, Config: IdentityConfig{Env: []string{}, Entrypoint: []string{}, Cmd: []string{}, Volumes: []string{}}}
	if differences := empty.Diff(Identity{Layers: []string{digestA}}); len(differences) > 0 {
		t.Errorf("differences: %q", differences)
	}
	if bare := (Identity{Layers: []string{digestA}}); bare.Digest() != empty.Digest() {
		t.Errorf("the digests are %s and %s", bare.Digest(), empty.Digest())
	}
}
