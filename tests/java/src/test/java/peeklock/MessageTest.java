package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static peeklock.Bus.bodies;
import static peeklock.Bus.message;
import static peeklock.Bus.one;

import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What of a message comes back to Java, which takes the keys of footers for symbols but writes them as strings. */
class MessageTest {
    @Test
    void aFooterComesBack() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            ServiceBusMessage sent = message("a");
            AmqpAnnotatedMessage raw = sent.getRawAmqpMessage();
            raw.getFooter().put("foot", "note");
            raw.getFooter().put("number", 7);
            raw.getDeliveryAnnotations().put("hop", 1);
            bus.sender(queue).sendMessage(sent);
            bus.sender(queue).sendMessage(message("b"));
            ServiceBusReceiverClient receiver = bus.receiver(queue);
            ServiceBusReceivedMessage received = one(receiver);
            AmqpAnnotatedMessage found = received.getRawAmqpMessage();
            assertEquals("note", found.getFooter().get("foot"));
            assertEquals(7, found.getFooter().get("number"));
            receiver.complete(received);
            assertEquals(List.of("b"), bodies(List.of(one(receiver))), "the receiver goes on");
        }
    }
}
