// A Majordomo 0.1 client, worker and broker, and a Titanic client, on the Go package pebbe/zmq4:
// mdp client|titanic ENDPOINT COUNT, mdp worker ENDPOINT, or mdp broker.
package main

import (
	"fmt"
	"log"
	"os"
	"reflect"
	"strconv"
	"time"

	zmq "github.com/pebbe/zmq4"
)

const (
	clientHeader = "MDPC01"
	workerHeader = "MDPW01"

	ready      = "\x01"
	request    = "\x02"
	reply      = "\x03"
	heartbeat  = "\x04"
	disconnect = "\x05"

	interval = time.Second
	liveness = 3
)

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "client":
		err = runClient(os.Args[2], os.Args[3])
	case len(os.Args) == 4 && os.Args[1] == "titanic":
		err = runTitanic(os.Args[2], os.Args[3])
	case len(os.Args) == 3 && os.Args[1] == "worker":
		err = runWorker(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == "broker":
		err = runBroker()
	default:
		err = fmt.Errorf("usage: mdp client|titanic ENDPOINT COUNT | mdp worker ENDPOINT | mdp broker")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func connect(kind zmq.Type, endpoint string) (*zmq.Socket, error) {
	socket, err := zmq.NewSocket(kind)
	if err != nil {
		return nil, err
	}
	return socket, socket.Connect(endpoint)
}

// runClient sends count requests and compares every frame of every reply.
func runClient(endpoint, count string) error {
	requests, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	socket, err := connect(zmq.REQ, endpoint)
	if err != nil {
		return err
	}
	defer socket.Close()
	for number := 0; number < requests; number++ {
		sent := []string{clientHeader, "echo", fmt.Sprintf("hello %d", number), ""}
		if _, err := socket.SendMessage(sent); err != nil {
			return err
		}
		received, err := socket.RecvMessage(0)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(received, sent) {
			return fmt.Errorf("wrong reply: sent %q, received %q", sent, received)
		}
	}
	fmt.Printf("%d replies\n", requests)
	return nil
}

// runWorker echoes each request. It fails when the broker is silent for three intervals or sends DISCONNECT.
func runWorker(endpoint string) error {
	socket, err := connect(zmq.DEALER, endpoint)
	if err != nil {
		return err
	}
	if _, err := socket.SendMessage("", workerHeader, ready, "echo"); err != nil {
		return err
	}
	fmt.Println("ready")
	poller := zmq.NewPoller()
	poller.Add(socket, zmq.POLLIN)
	beatAt, goneAt := time.Now().Add(interval), time.Now().Add(liveness*interval)
	for time.Now().Before(goneAt) {
		arrived, err := poller.Poll(pause(beatAt))
		if err != nil {
			return err
		}
		if len(arrived) > 0 {
			if err := answer(socket); err != nil {
				return err
			}
			goneAt = time.Now().Add(liveness * interval)
		}
		if !time.Now().Before(beatAt) {
			if _, err := socket.SendMessage("", workerHeader, heartbeat); err != nil {
				return err
			}
			beatAt = time.Now().Add(interval)
		}
	}
	return fmt.Errorf("the broker was silent for %v", liveness*interval)
}

// pause returns the time until a moment; a negative one would make Poll wait for ever.
func pause(moment time.Time) time.Duration {
	if left := time.Until(moment); left > 0 {
		return left
	}
	return 0
}

// answer takes one message of the broker: REQUEST is echoed, HEARTBEAT needs no answer, all else is an error.
func answer(socket *zmq.Socket) error {
	frames, err := socket.RecvMessage(0)
	if err != nil {
		return err
	}
	if len(frames) < 3 || frames[0] != "" || frames[1] != workerHeader {
		return fmt.Errorf("malformed message %q", frames)
	}
	switch arguments := frames[3:]; {
	case frames[2] == heartbeat && len(arguments) == 0:
		return nil
	case frames[2] == request && len(arguments) >= 3 && arguments[1] == "":
		_, err = socket.SendMessage("", workerHeader, reply, arguments)
		return err
	default:
		return fmt.Errorf("unexpected message %q", frames)
	}
}
