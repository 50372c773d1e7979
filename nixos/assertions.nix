# What evaluation refuses. Every sentence names the option, what it would mean for judging, and the cure.
{
  config,
  lib,
  options,
  pkgs,
  ...
}:
let
  cfg = config.services.evalhost;
  opt = options.services.evalhost;
  our = import ./lib.nix { inherit lib; };

  url = if cfg.server.url == null then null else our.urlParts cfg.server.url;
  proxy = if cfg.server.proxy == null then null else our.urlParts cfg.server.proxy;

  # A kernel of the operator's choice says its version. The one NixOS chose itself is judged by the release that chose
  # it: from 25.05 on that is 6.12 or newer.
  kernelChosen = options.boot.kernelPackages.highestPrio < (lib.mkOptionDefault null).priority;
  kernelNewEnough =
    if kernelChosen then
      lib.versionAtLeast config.boot.kernelPackages.kernel.version "6.12"
    else
      lib.versionAtLeast lib.trivial.release "25.05";

  # Kernel parameters under which a limit is not enforced or a measurement not taken, each with what it breaks.
  forbiddenParameters = {
    "systemd\\.unified_cgroup_hierarchy=(0|no|false|off)" =
      "it mounts the old cgroup hierarchy, on which no verdict can be reached";
    "systemd\\.legacy_systemd_cgroup_controller(=.*)?" =
      "it mounts the old cgroup hierarchy, on which no verdict can be reached";
    "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=.*" =
      "it mounts the old cgroup hierarchy, on which no verdict can be reached";
    "cgroup_disable=.*" = "a missing controller raises no error: its limit is simply not applied";
    "psi=(0|off|no|false)" =
      "without pressure figures a busy machine looks like a program that makes no progress";
    "seccomp=0" =
      "Docker's seccomp profile closes the calls that a submission could attack the kernel with";
    "zswap\\.enabled=(1|y|Y)" = "memory that is swapped out is not counted";
  };
  objections =
    parameter:
    lib.mapAttrsToList (_: why: { inherit parameter why; }) (
      lib.filterAttrs (pattern: _: builtins.match pattern parameter != null) forbiddenParameters
    );
  forbidden = lib.concatMap objections config.boot.kernelParams;

  inDockerGroup = lib.filterAttrs (_: user: lib.elem "docker" user.extraGroups) config.users.users;
  dockerUsers = lib.unique (config.users.groups.docker.members ++ lib.attrNames inDockerGroup);

  people = lib.attrNames (lib.filterAttrs (_: user: user.isNormalUser) config.users.users);

  urlIsInterface = url != null && lib.hasInfix "/api/" (url.path + "/");
  processors = if cfg.processors == null then null else our.processorsOf cfg.processors;
  keyIsEmptied = lib.hasPrefix "/var/lib/evalhost/" cfg.identity.keyFile;
in
{
  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = pkgs.stdenv.hostPlatform.system == "x86_64-linux";
        message = ''
          evalhost: this system is ${pkgs.stdenv.hostPlatform.system}, and judged programs are built for x86_64-linux
          alone. Set nixpkgs.hostPlatform = "x86_64-linux", or `${opt.enable}` = false on this machine.
        '';
      }
      {
        assertion = cfg.server.atBoot || cfg.server.url != null;
        message = ''
          evalhost: `${opt.server.url}` is not set, so there is nobody to judge for. Set it to the root of the Server's
          interface, for example "https://judge.example.org/api/v1".
        '';
      }
      {
        assertion = cfg.server.url == null || urlIsInterface;
        message = ''
          evalhost: `${opt.server.url}` is "${toString cfg.server.url}", which is no http or https address with /api/
          in its path. Set it to the root of the Server's interface, for example "https://judge.example.org/api/v1".
        '';
      }
      {
        assertion = cfg.server.proxy == null || proxy != null;
        message = ''
          evalhost: `${opt.server.proxy}` is "${toString cfg.server.proxy}", which is no address of a proxy, so the
          firewall would not know whom to let out to. Set it to one such as "http://proxy.example.org:3128".
        '';
      }
      {
        assertion = kernelNewEnough;
        message = ''
          evalhost: the kernel is older than Linux 6.12, and measuring relies on what newer ones tell of a cgroup. Set
          `${options.boot.kernelPackages}` to a kernel of 6.12 or newer, or follow a NixOS of 25.05 or newer.
        '';
      }
      {
        assertion = config.swapDevices == [ ];
        message = ''
          evalhost: `${options.swapDevices}` is not empty. Memory that is swapped out is not counted: a program could
          use more than its limit. Set it to [ ].
        '';
      }
      {
        assertion = !config.zramSwap.enable;
        message = ''
          evalhost: `${options.zramSwap.enable}` is on. Memory that is swapped out is not counted, and compressing it
          takes processor time from judged programs. Set it to false.
        '';
      }
      {
        assertion = !config.systemd.coredump.enable;
        message = ''
          evalhost: `${options.systemd.coredump.enable}` is on. Every crash of a judged program would start a process
          of the host as root. Set it to false.
        '';
      }
      {
        assertion = processors == null || cfg.lanes <= lib.length processors;
        message = ''
          evalhost: `${opt.lanes}` is ${toString cfg.lanes}, and `${opt.processors}` = "${toString cfg.processors}" names
          fewer processors than that. A lane needs a core of its own: set fewer lanes or more processors.
        '';
      }
      {
        assertion = cfg.identity.device == null || !keyIsEmptied;
        message = ''
          evalhost: `${opt.identity.keyFile}` is below /var/lib/evalhost, which is emptied at every boot, although
          `${opt.identity.device}` names a place that survives. Leave the key file at its default.
        '';
      }
      {
        assertion = dockerUsers == [ ];
        message = ''
          evalhost: ${lib.concatStringsSep ", " dockerUsers} would be in the group docker, whose members are root on
          this machine. Take them out of `${options.users.groups}`.docker and of their extraGroups.
        '';
      }
      {
        assertion = !config.services.openssh.enable || cfg.allowSsh;
        message = ''
          evalhost: `${options.services.openssh.enable}` is on, and a judging host has no way in. Set
          `${opt.allowSsh}` = true if you mean it, or use the maintenance entry of profiles/bare-metal.nix.
        '';
      }
      {
        assertion = forbidden == [ ];
        message = ''
          evalhost: `${options.boot.kernelParams}` has ${
            lib.concatMapStringsSep ", and " (entry: "\"${entry.parameter}\": ${entry.why}") forbidden
          }. Take it out.
        '';
      }
      {
        assertion = people == [ ];
        message = ''
          evalhost: `${options.users.users}` has ${lib.concatStringsSep ", " people}, and a judging host has no users but
          root and those of its services. Take them out; whoever maintains the machine comes as root.
        '';
      }
    ];
  };
}
