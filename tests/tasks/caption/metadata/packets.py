"""XMP files in the manner of three programs, written by us."""

# Elements, a comment, several languages; Windows line ends; Adobe's processing instructions.
LIGHTROOM = """<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Adobe XMP Core 7.0-c000">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about=""
    xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:crs="http://ns.adobe.com/camera-raw-settings/1.0/"
   xmp:Rating="4"
   crs:Version="16.1"
   crs:ToneCurveName='Linear > "flat"'>
   <!-- kept -->
   <dc:description>
    <rdf:Alt>
     <rdf:li xml:lang="x-default">Ours &amp; theirs</rdf:li>
     <rdf:li xml:lang="de-DE">Unseres</rdf:li>
    </rdf:Alt>
   </dc:description>
   <dc:subject><rdf:Bag><rdf:li>garden</rdf:li><rdf:li>x</rdf:li></rdf:Bag></dc:subject>
   <crs:ToneCurve><rdf:Seq><rdf:li>0, 0</rdf:li><rdf:li>255, 255</rdf:li></rdf:Seq></crs:ToneCurve>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
""".replace("\n", "\r\n").encode()

# Nearly all as attributes, an empty description, a namespace of its own, no text of a person.
DARKTABLE = b"""<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about=""
    xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:darktable="http://darktable.sf.net/"
   dc:description=""
   darktable:xmp_version="5"
   darktable:raw_params="0">
   <darktable:history>
    <rdf:Seq>
     <rdf:li
      darktable:num="0"
      darktable:operation="exposure"
      darktable:params="gz02eJxjYGBgYAFiAAAWAAM="/>
    </rdf:Seq>
   </darktable:history>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>"""

# The packet's wrapper, another prefix, the description as plain text, two descriptions, padding.
DIGIKAM = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<?digikam keep="yes"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<r:Description r:about="photo-7" xmlns:d="http://purl.org/dc/elements/1.1/"
 xmlns:i="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/">
<d:description>Plain <![CDATA[<text>]]></d:description>
<i:AltTextAccessibility><r:Alt><r:li xml:lang="x-default">alt of mine</r:li></r:Alt>
</i:AltTextAccessibility>
</r:Description><r:Description r:about="photo-7"
 xmlns:digiKam="http://www.digikam.org/ns/1.0/">
<digiKam:TagsList><r:Seq><r:li>Trips/Lake</r:li></r:Seq></digiKam:TagsList>
</r:Description></r:RDF></x:xmpmeta>
                                     \n<?xpacket end="w"?>""".encode()

ALL = {"lightroom": LIGHTROOM, "darktable": DARKTABLE, "digikam": DIGIKAM}
EMPTY = b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" />'
