# The daemon: its settings as one environment file, the programs at the fixed place its unit names, and the unit itself.
{
  config,
  lib,
  options,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.evalhost;
  unit = ./host/evalhost-runner.service;
  # Without the unit or without the program there is nothing to run yet: the host then judges for whoever calls evalhost.
  present = builtins.pathExists unit && cfg.programs ? runner;

  # One place on every systemd host, so that the unit is the same bytes everywhere.
  programs = pkgs.runCommand "evalhost-programs" { } (
    ''
      mkdir -p "$out"
      ln -s ${lib.getExe cfg.programs.evalhost} "$out/evalhost"
      ln -s ${lib.getExe cfg.programs.shim} "$out/aj-shim"
    ''
    + lib.optionalString (cfg.programs ? runner) ''
      ln -s ${lib.getExe cfg.programs.runner} "$out/evalhost-runner"
    ''
  );

  value =
    v:
    if builtins.isBool v then
      # A switch is on with any value at all, so off is the absence of one.
      (if v then "1" else "")
    else if builtins.isPath v then
      # A file of whoever declares the host comes along with it; the bare path would name a file that only they have.
      "${v}"
    else
      toString v;

  list = lib.concatStringsSep ",";
  fromOptions = {
    AJ_Server__BaseUrl = cfg.server.url;
    AJ_Runner__Name = cfg.name;
    AJ_Runner__KeyPath = cfg.identity.keyFile;
    AJ_Runner__ProblemTypes = list cfg.problemTypes;
    AJ_Runner__Tags = list cfg.tags;
    AJ_Runner__TestsAtOnce = cfg.lanes;
    AJ_Cache__Path = cfg.cache.path;
    AJ_Cache__MaxBytes = cfg.cache.maxBytes;
    AJ_Work__Path = "/var/lib/evalhost/scratch";
    EVALHOST_MANIFEST = "/etc/evalhost/images.json";
    EVALHOST_SHIM_PATH = "/usr/lib/evalhost/aj-shim";
    EVALHOST_LOG_LEVEL = cfg.logLevel;
    EVALHOST_LANGUAGES = if cfg.languages == null then null else list cfg.languages;
    EVALHOST_CA_FILE = cfg.server.caFile;
    EVALHOST_METRICS = lib.optionalString cfg.metrics.enable "127.0.0.1:${toString cfg.metrics.port}";
    HTTPS_PROXY = cfg.server.proxy;
    HTTP_PROXY = cfg.server.proxy;
  };
  meant = lib.filterAttrs (_: v: v != null && v != "") (fromOptions // cfg.settings);
  clashes = lib.intersectLists (lib.attrNames cfg.settings) (lib.attrNames fromOptions);

  # What systemd reads back from a double-quoted value is the value again.
  quoted = v: ''"${lib.escape [ "\\" "\"" "$" "`" ] (value v)}"'';
  environmentText = lib.concatStrings (
    lib.mapAttrsToList (key: v: "${key}=${quoted v}\n") cfg.environment
  );
  unchecked = pkgs.writeText "evalhost-runner.env" environmentText;

  # The daemon itself judges its settings while the system is built: what it would refuse at the start never gets there.
  checked = pkgs.runCommand "evalhost-runner.env" { } ''
    set -a
    . ${unchecked}
    set +a
    ${lib.getExe cfg.programs.runner} --check-config
    cp ${unchecked} "$out"
  '';
in
{
  options.services.evalhost = {
    metrics = {
      enable = lib.mkEnableOption "figures for Prometheus, on the loopback interface only";
      port = mkOption {
        type = types.port;
        default = 9464;
        example = 9100;
        description = "The port on 127.0.0.1 where they are told. Nothing can reach it from outside: no port is open.";
      };
    };

    settings = mkOption {
      type = types.attrsOf (
        types.oneOf [
          types.str
          types.int
          types.bool
        ]
      );
      default = { };
      example = {
        AJ_Poll__WaitSeconds = 50;
        AJ_Lease__RequestSeconds = 1200;
      };
      description = ''
        Further settings of the daemon, by the names of its environment: what no option here covers. An unknown one is
        refused when the system is built.
      '';
    };

    environment = mkOption {
      type = types.attrsOf types.str;
      readOnly = true;
      default = lib.mapAttrs (_: value) meant;
      defaultText = lib.literalMD "every option above, as the daemon reads it";
      example = {
        AJ_Server__BaseUrl = "https://judge.example.org/api/v1";
      };
      description = "What the daemon is told, all of it. For reading.";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = clashes == [ ];
        message = ''
          evalhost: `${options.services.evalhost.settings}` sets ${lib.concatStringsSep ", " clashes}, which an option of
          services.evalhost already sets. Use that option, so that what depends on it (firewall, images, lanes) follows.
        '';
      }
      {
        assertion = lib.all (key: builtins.match "(AJ|EVALHOST)_[A-Za-z0-9_]+" key != null) (
          lib.attrNames cfg.settings
        );
        message = ''
          evalhost: `${options.services.evalhost.settings}` takes names that begin with AJ_ or EVALHOST_, and has
          ${lib.concatStringsSep ", " (lib.attrNames cfg.settings)}. Take the others out.
        '';
      }
    ];

    environment.etc."evalhost/runner.env" = lib.mkIf (!cfg.server.atBoot) {
      source = if present then checked else unchecked;
    };
    environment.systemPackages = [ cfg.programs.evalhost ];

    systemd.tmpfiles.packages = [
      (pkgs.runCommand "evalhost-tmpfiles" { } ''
        install -D -m 0444 ${./host/tmpfiles.conf} "$out/lib/tmpfiles.d/evalhost.conf"
      '')
    ];
    # host/tmpfiles.conf makes the usual place; another one is made in the same way.
    systemd.tmpfiles.settings."20-evalhost-cache" =
      lib.mkIf (cfg.cache.path != options.services.evalhost.cache.path.default)
        {
          ${cfg.cache.path}.d.mode = "0700";
        };
    systemd.tmpfiles.settings."20-evalhost-programs" = {
      "/usr/lib/evalhost"."L+".argument = toString programs;
    };

    systemd.packages = lib.optional present (
      pkgs.runCommand "evalhost-runner-unit" { } ''
        install -D -m 0444 ${unit} "$out/lib/systemd/system/evalhost-runner.service"
      ''
    );
    # Not wantedBy of the unit, which would write a drop-in: the unit stays the very file.
    systemd.targets.multi-user.wants = lib.optional present "evalhost-runner.service";
  };
}
