package main

import (
	"fmt"
	"log"
	"time"

	zmq "github.com/pebbe/zmq4"
)

// peer is a worker that said READY, until it leaves or expires.
type peer struct {
	service  string
	expireAt time.Time
}

// broker has its queues by service name: requests that wait, and the routing ids of idle workers, oldest first.
type broker struct {
	socket  *zmq.Socket
	workers map[string]*peer
	waiting map[string][][]string
	idle    map[string][]string
}

// runBroker binds a free port, prints the endpoint and serves until it is killed.
func runBroker() error {
	socket, err := zmq.NewSocket(zmq.ROUTER)
	if err != nil {
		return err
	}
	if err := socket.Bind("tcp://127.0.0.1:*"); err != nil {
		return err
	}
	endpoint, err := socket.GetLastEndpoint()
	if err != nil {
		return err
	}
	fmt.Println(endpoint)
	b := &broker{socket, map[string]*peer{}, map[string][][]string{}, map[string][]string{}}
	return b.serve()
}

func (b *broker) serve() error {
	poller := zmq.NewPoller()
	poller.Add(b.socket, zmq.POLLIN)
	beatAt := time.Now().Add(interval)
	for {
		arrived, err := poller.Poll(pause(beatAt))
		if err != nil {
			return err
		}
		if len(arrived) > 0 {
			frames, err := b.socket.RecvMessage(0)
			if err != nil {
				return err
			}
			b.take(frames)
		}
		if !time.Now().Before(beatAt) {
			b.expire()
			b.beat()
			beatAt = time.Now().Add(interval)
		}
	}
}

// take handles one message: routing id, empty frame, header, and what the header calls for.
func (b *broker) take(frames []string) {
	switch {
	case len(frames) >= 5 && frames[1] == "" && frames[2] == clientHeader:
		b.fromClient(frames[0], frames[3], frames[4:])
	case len(frames) >= 4 && frames[1] == "" && frames[2] == workerHeader:
		b.fromWorker(frames[0], frames[3], frames[4:])
	default:
		log.Fatalf("malformed message %q", frames)
	}
}

func (b *broker) fromClient(client, service string, body []string) {
	if service == "mmi.service" {
		code := "404"
		for _, worker := range b.workers {
			if worker.service == body[0] {
				code = "200"
			}
		}
		b.send(client, clientHeader, service, code)
		return
	}
	b.waiting[service] = append(b.waiting[service], append([]string{client, ""}, body...))
	b.dispatch(service)
}

func (b *broker) fromWorker(id, command string, arguments []string) {
	worker, known := b.workers[id]
	if known {
		worker.expireAt = time.Now().Add(liveness * interval)
	}
	switch {
	case command == disconnect:
		b.forget(id)
	case command == ready && !known && len(arguments) == 1:
		b.workers[id] = &peer{arguments[0], time.Now().Add(liveness * interval)}
		b.release(id, arguments[0])
	case command == reply && known && len(arguments) >= 3 && arguments[1] == "":
		b.send(arguments[0], clientHeader, worker.service, arguments[2:])
		b.release(id, worker.service)
	case command == heartbeat && known:
	default:
		b.forget(id)
		b.send(id, workerHeader, disconnect)
	}
}

// release puts a worker at the end of the line for its service.
func (b *broker) release(id, service string) {
	b.idle[service] = append(b.idle[service], id)
	b.dispatch(service)
}

func (b *broker) dispatch(service string) {
	for len(b.waiting[service]) > 0 && len(b.idle[service]) > 0 {
		b.send(b.idle[service][0], workerHeader, request, b.waiting[service][0])
		b.idle[service], b.waiting[service] = b.idle[service][1:], b.waiting[service][1:]
	}
}

// expire forgets workers that were silent for three intervals.
func (b *broker) expire() {
	for id, worker := range b.workers {
		if time.Now().After(worker.expireAt) {
			log.Printf("a worker of %s was silent for %v", worker.service, liveness*interval)
			b.forget(id)
		}
	}
}

// beat sends HEARTBEAT to idle workers.
func (b *broker) beat() {
	for _, ids := range b.idle {
		for _, id := range ids {
			b.send(id, workerHeader, heartbeat)
		}
	}
}

func (b *broker) forget(id string) {
	worker, known := b.workers[id]
	if !known {
		return
	}
	delete(b.workers, id)
	kept := []string{}
	for _, other := range b.idle[worker.service] {
		if other != id {
			kept = append(kept, other)
		}
	}
	b.idle[worker.service] = kept
}

// send puts the routing id and the empty frame in front.
func (b *broker) send(id string, frames ...interface{}) {
	if _, err := b.socket.SendMessage(append([]interface{}{id, ""}, frames...)...); err != nil {
		log.Fatal(err)
	}
}
