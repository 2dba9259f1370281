package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static peeklock.Bus.SESSION;
import static peeklock.Bus.inSession;
import static peeklock.Bus.one;

import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The client repeats the session id of a message that it settles by $management, wherever the message rests. */
class DeferralTest {
    @Test
    void aDeferredMessageWithASessionIdIsSettledWhereThereAreNoSessions() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            bus.sender(queue).sendMessages(List.of(
                inSession("completed", SESSION), inSession("abandoned", SESSION), inSession("dead", SESSION)));
            ServiceBusReceiverClient receiver = bus.receiver(queue);
            for (int count = 0; count < 3; count++) {
                var received = one(receiver);
                receiver.defer(received);
                var deferred = receiver.receiveDeferredMessage(received.getSequenceNumber());
                assertEquals(SESSION, deferred.getSessionId());
                receiver.renewMessageLock(deferred);
                switch (deferred.getBody().toString()) {
                    case "completed" -> receiver.complete(deferred);
                    case "abandoned" -> receiver.abandon(deferred);
                    default -> receiver.deadLetter(deferred);
                }
            }
            assertEquals(List.of("abandoned"), bus.seen(queue));
            assertEquals(List.of("dead"), bus.seenDead(queue));
        }
    }

    @Test
    void aDeferredDeadLetterOfASessionIsSettled() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.sessionQueue();
            bus.sender(queue).sendMessage(inSession("a", SESSION));
            ServiceBusReceiverClient session = bus.session(queue, SESSION);
            session.deadLetter(one(session));
            ServiceBusReceiverClient dead = bus.deadLetters(queue);
            var received = one(dead);
            dead.defer(received);
            dead.complete(dead.receiveDeferredMessage(received.getSequenceNumber()));
            assertEquals(List.of(), bus.seenDead(queue));
        }
    }
}
