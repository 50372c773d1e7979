# What an operator says about the Server, this Runner and what it judges. Options that belong to one concern only stand
# in the file of that concern.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption mkEnableOption types;
  cfg = config.services.evalhost;
  our = import ./lib.nix { inherit lib; };
  table = lib.importJSON ../langimages/toolchains.json;
  known = map (entry: entry.id) (table.families ++ table.toolchains);
in
{
  options.services.evalhost = {
    enable = mkEnableOption "judging of programs on this machine, which then does nothing else";

    programs = mkOption {
      type = types.lazyAttrsOf types.package;
      default = import ./packages.nix { inherit pkgs; };
      defaultText = lib.literalMD "the programs of the flake this module came from";
      example = lib.literalExpression "inputs.evalhost.packages.x86_64-linux";
      description = "The programs to install: `evalhost`, `shim`, and `runner` where there is one.";
    };

    server = {
      url = mkOption {
        type = types.nullOr types.str;
        default = null;
        example = "https://judge.example.org/api/v1";
        description = ''
          The root of the Server's interface, as its operator gives it: with `/api/` and a version. It is the only
          thing a host needs to be told.
        '';
      };
      atBoot = mkOption {
        type = types.bool;
        default = false;
        example = true;
        description = ''
          Whether the Server is named when the machine boots instead of here. Only the ISO does this; see
          `profiles/iso.nix`.
        '';
      };
      addresses = mkOption {
        type = types.listOf our.types.address;
        default = [ ];
        example = [ "203.0.113.7" ];
        description = ''
          The Server's addresses, if they are fixed: then nothing else is let out, and no name decides who is reached.
          Left empty, the name in the URL is looked up again and again at the declared resolvers.
        '';
      };
      caFile = mkOption {
        type = types.nullOr types.path;
        default = null;
        example = lib.literalExpression "./judge-ca.pem";
        description = "Certificates to trust besides the usual ones, for a Server with a private authority. Public data.";
      };
      proxy = mkOption {
        type = types.nullOr types.str;
        default = null;
        example = "http://proxy.example.org:3128";
        description = "The HTTP proxy through which the Server is reached. Then only the proxy is let out.";
      };
    };

    name = mkOption {
      type = types.nullOr (types.strMatching "[^[:cntrl:]]{1,128}");
      default = null;
      example = "hall-2-left";
      description = "What the Server's panel calls this Runner; the host's name if null.";
    };

    tags = mkOption {
      type = types.listOf (types.strMatching "[^,[:space:][:upper:]]+");
      default = [ ];
      example = [ "finals" ];
      description = ''
        The pools this Runner serves, in lower case; none means the pool `default`, and naming one leaves it. The
        Server reads them when the Runner registers for the first time, and never again.
      '';
    };

    problemTypes = mkOption {
      type = types.nonEmptyListOf (
        types.enum [
          "standard-io@1"
          "output-only@1"
        ]
      );
      default = [ "standard-io@1" ];
      example = [
        "standard-io@1"
        "output-only@1"
      ];
      description = "The kinds of problems to ask the Server for.";
    };

    languages = mkOption {
      type = types.nullOr (types.nonEmptyListOf (types.enum known));
      default = null;
      example = [
        "cpp"
        "python3"
      ];
      description = ''
        What is offered, each entry a family or a toolchain of `langimages/toolchains.json`; everything if null. Only
        the images of what is offered are installed.
      '';
    };

    lanes = mkOption {
      type = types.ints.positive;
      default = 1;
      example = 4;
      description = ''
        How many tests of one submission are judged at the same time, each on whole cores of its own. With more than
        one, `processors` should be set: without it nothing is pinned.
      '';
    };

    processors = mkOption {
      type = types.nullOr our.types.processors;
      default = null;
      example = "2-9";
      description = ''
        The processors that judged programs may use, cut into as many pieces as there are lanes. What is left over
        serves the rest of the machine.
      '';
    };

    cache = {
      path = mkOption {
        type = types.strMatching "/.+";
        default = "/var/lib/evalhost/cache";
        example = "/var/lib/evalhost/packages";
        description = "Where packages are kept between jobs. A directory of its own: whatever is below is deleted in time.";
      };
      maxBytes = mkOption {
        type = types.ints.positive;
        default = 10 * 1024 * 1024 * 1024;
        defaultText = lib.literalExpression "10 * 1024 * 1024 * 1024";
        example = lib.literalExpression "2 * 1024 * 1024 * 1024";
        description = "How much is kept there. On a host without a scratch device this is memory.";
      };
    };

    identity = {
      keyFile = mkOption {
        type = our.types.secretPath;
        default =
          if cfg.identity.device == null then
            "/var/lib/evalhost/identity.key"
          else
            "/var/lib/evalhost-identity/identity.key";
        defaultText = lib.literalMD "`/var/lib/evalhost/identity.key`, or on the device if one is named";
        example = "/var/lib/evalhost-identity/identity.key";
        description = ''
          The Runner's private key, the only secret of the host; made at the first start if it is missing. It can
          never be in the store. Where it does not survive a boot, the host registers anew.
        '';
      };
      device = mkOption {
        type = types.nullOr (types.strMatching "/dev/.+");
        default = null;
        example = "/dev/disk/by-partlabel/evalhost-identity";
        description = ''
          A partition with an ext4 file system that holds the key, and beside it which jobs ended the Runner or the
          host: the one thing that survives a boot.
        '';
      };
    };

    logLevel = mkOption {
      type = types.enum [
        "debug"
        "info"
        "warn"
        "error"
      ];
      default = "info";
      example = "debug";
      description = "What the Runner writes to the journal, and everything more severe.";
    };
  };
}
