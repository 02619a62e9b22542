package main

import "context"

// job is a part that has begun before the rest runs.
type job struct {
	stop context.CancelFunc
	done chan struct{} // closed when it has ended
	err  error         // read after done
}

// begin starts do, which ends with its context. Somebody must call run or end.
func begin(do func(context.Context) error) *job {
	ctx, stop := context.WithCancel(context.Background())
	j := &job{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(j.done)
		j.err = do(ctx)
	}()
	return j
}

// run waits until ctx ends, or the job by itself.
func (j *job) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-j.done:
	}
	return j.end()
}

// end stops the job and waits for it; again it gives the same error.
func (j *job) end() error {
	j.stop()
	<-j.done
	return j.err
}
