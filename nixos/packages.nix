# The programs. Each is one Go main package of this tree, built from the same vendored modules.
{
  pkgs,
  version ? "development",
}:
let
  inherit (pkgs) lib;
  inherit (lib) fileset;

  # What `go mod vendor` writes for go.mod and go.sum, as a NAR hash. checks/nix recomputes it.
  vendorHash = import ./vendor-hash.nix;

  # Only what the go command reads, so that no change of a document, a unit or a Nix file rebuilds a program. Every Go
  # file of the module is in it, built here or not: what is vendored is what all of them import together.
  src = fileset.toSource {
    root = ../.;
    fileset = fileset.unions [
      ../go.mod
      ../go.sum
      (fileset.fileFilter (file: file.hasExt "go") ../.)
      (fileset.fileFilter (file: file.hasExt "json") ../langimages)
      # Beside the Go files stand what they embed, and what their tests hold them against.
      ../services
      ../shim
      (fileset.maybeMissing ./host)
      # The scripts that nixos/embed.go carries.
      (fileset.fileFilter (file: file.hasExt "sh") ./.)
      (fileset.maybeMissing ../.env.example)
      (fileset.maybeMissing ../examples)
      (fileset.maybeMissing ../checks/suites)
      # What the module writes, which the daemon's settings are held against.
      ../checks/nix/testdata
      # What is held against the sources: the page for whoever is on call, and the figures it shows.
      (fileset.maybeMissing ../docs/author.md)
      (fileset.maybeMissing ../docs/operator.md)
      (fileset.maybeMissing ../docs/grafana)
    ];
  };

  # CGO_ENABLED=0 makes every program static, so that it is the same bytes wherever it is unpacked; -trimpath is what
  # buildGoModule adds as long as a reference to the compiler is not allowed.
  program =
    {
      name,
      package,
      description,
      ...
    }@args:
    pkgs.buildGo126Module (
      {
        pname = name;
        inherit version src vendorHash;
        subPackages = [ package ];
        env.CGO_ENABLED = "0";
        allowGoReference = false;
        ldflags = [
          "-s"
          "-w"
          "-X main.version=${version}"
        ];
        doCheck = false;
        postInstall = lib.optionalString (baseNameOf package != name) ''
          mv "$out/bin/${baseNameOf package}" "$out/bin/${name}"
        '';
        doInstallCheck = true;
        # A dynamic loader is something a language image may not have.
        installCheckPhase = ''
          runHook preInstallCheck
          if readelf --program-headers "$out/bin/${name}" | grep -q INTERP; then
            echo "$out/bin/${name} asks for a dynamic loader" >&2
            exit 1
          fi
          runHook postInstallCheck
        '';
        meta = {
          inherit description;
          license = lib.licenses.mit;
          mainProgram = name;
          platforms = [ "x86_64-linux" ];
        };
      }
      // removeAttrs args [
        "name"
        "package"
        "description"
      ]
    );

  # A program joins the host when its directory is there.
  known = {
    evalhost = {
      package = "services/evalhost";
      description = "Judges programs on this machine, and says whether it can";
      # The unit tests of the whole tree run once, with the program an operator calls.
      doCheck = true;
      checkPhase = ''
        runHook preCheck
        # Tests that fail say where, as they do in a build of buildGoModule's own.
        export GOFLAGS=''${GOFLAGS//-trimpath/}
        go test ./services/... ./shim/... ./langimages/...
        runHook postCheck
      '';
      # The program looks for the shim beside itself first, so that it judges from wherever it is started.
      postInstall = ''
        ln -s ${built.aj-shim}/bin/aj-shim "$out/bin/aj-shim"
      '';
    };
    aj-shim = {
      package = "shim";
      description = "The first process of every judged container";
    };
    evalhost-runner = {
      package = "services/runner";
      description = "Claims jobs from a Server, judges them and reports";
    };
    refserver = {
      package = "services/refserver";
      description = "A small Server for trying things out";
    };
  };
  isThere = _: known: builtins.pathExists (../. + "/${known.package}/main.go");
  built = lib.mapAttrs (name: known: program (known // { inherit name; })) (
    lib.filterAttrs isThere known
  );

  suites = import ./suites.nix { inherit pkgs program; };

  # Not for a host: it writes the page of options.
  reference = program {
    name = "reference";
    package = "checks/nix/reference";
    description = "Renders the page of options";
  };

  names = {
    evalhost = "evalhost";
    shim = "aj-shim";
    runner = "evalhost-runner";
    refserver = "refserver";
  };
in
lib.mapAttrs (_: name: built.${name}) (lib.filterAttrs (_: name: built ? ${name}) names)
// {
  inherit suites reference;
}
