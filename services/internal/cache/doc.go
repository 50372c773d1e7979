// Package cache keeps problem packages on disk between jobs (spec/protocol.md section 5), for one Runner or for several that
// share a directory. Losing all of it costs downloads and nothing else; what it hands out is whole or it is not handed out.
//
//	c, err := cache.Open(cache.Config{Path: …, Instance: …, MaxBytes: …})
//	swept, err := c.Sweep(ctx)                    // at the start, before anything is fetched
//	held, err := c.Get(ctx, cache.Ref{…}, client) // downloaded or not, it is this Runner's until Release
//	defer held.Release()
//	dir, err := held.Tree(ctx, problem.UnpackPackage)
//	program, err := held.Program(ctx, cache.Build{…}, build)
//
// # Layout (5.2)
//
//	packages/<s0s1>/<s2s3>/<s4s5>/<fileId>/    an entry; by the checksum, then by the id
//	    file                                   the bytes as served
//	    manifest.json                          what is vouched for
//	    _extracted/                            the unpacked package
//	    _build/<key>/out/                      a built judging program
//	    <anything>.<instance>.partial          work in progress of one Runner
//	holding/<fileId>/<instance>                that Runner uses the entry; flock of holding/ is the gate, see below
//	used/<fileId>                              its time is when the entry was last wanted
//	locks/<fileId>                             flock: somebody prepares the entry; never removed
//	trash/                                     what was chosen, on its way out
//
// # What may be relied on
//
// A product that is named by the manifest was complete and on the disk before it was named: everything is written to the
// device first, so that no crash leaves an empty file where the tests of a problem should be. The manifest holds a digest
// of every product. It is compared with the content the first time a process hands the product out, and with names and
// sizes every other time; an archive is compared with its checksum whenever a product is made of it. What does not agree
// is made anew in place, from a fresh download if need be.
//
// A held entry is never evicted, by anybody. Taking hold and choosing what to evict exclude each other through the gate: a lock that is shared to take hold and exclusive to choose.
//
// Preparing (unpacking, building) is done by one Runner at a time, under the entry's lock; the others wait, hear a stop
// while they do, and find the product. Nothing may wait for a cache lock that holds the host's lock: builds take that one
// inside of this one.
//
// A disk that is full is answered by evicting everything that nobody holds, once, and by trying again; after that the
// error's Problem is NoSpace. A cache directory must be on a local file system with flock and atomic rename, and belongs
// to Runners alone: whoever else can write there can change verdicts.
package cache
