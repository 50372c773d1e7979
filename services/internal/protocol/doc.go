// Package protocol speaks the Server-Runner contract from the Runner's side (spec/protocol.md): the wire types, one
// client for every call, the classes of failure and the waiting rules. It decides nothing about judging.
//
// Life of a client:
//
//	client, err := protocol.New(protocol.Options{BaseURL: …, UserAgent: …})
//	registered, err := client.Admit(ctx, key, protocol.Registration{…}, protocol.AdmitOptions{})
//	job, got, err := client.Claim(ctx, protocol.ClaimRequest{Lease: …, Wait: …})
//	err = client.Download(ctx, protocol.Wanted{…}, w)
//	… client.Renew on a timer of the caller's …
//	file, err := client.Upload(ctx, protocol.BytesUpload("log.txt", "text/plain", text))
//	err = client.Attach(ctx, job.Lease, file.ID, "log")
//	reported, err := client.Report(ctx, job.Lease, protocol.Judged{…}.Report())
//
// Every error of a call is an *Error with a Class; the predicates (Retryable, WorkLost, …) answer what the contract asks
// about a failure. A bearer call that is answered 401 shakes hands again once and is sent once more (10.6). No other call
// is repeated behind the caller's back, with one exception: downloads (docs/decisions/0040-http-retries.md).
//
// Reading is tolerant where the contract asks for it (unknown members, null, unknown words, instants) and exact where it
// is exact (member names, types, ids that become paths, checksums). Answers are bounded in size. Tokens, nonces,
// signatures and lease tokens appear in no error and no log record.
package protocol
